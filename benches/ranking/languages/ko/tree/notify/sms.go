package notify

import (
	"strings"
	"time"
	"unicode/utf8"
)

// fitSMS는 단문 문자 한 통에 들어가도록 본문을 줄인다. 통신사는 한글을 두 바이트로 세므로
// 글자 수가 아니라 그 방식대로 센 길이가 90을 넘지 않게 자른다.
func fitSMS(body string) string {
	used := 0
	for i, r := range body {
		cost := 1
		if utf8.RuneLen(r) > 1 {
			cost = 2
		}
		if used+cost > 90 {
			return body[:i]
		}
		used += cost
	}
	return body
}

// QuietHours는 한밤중에 알림을 보내 고객을 깨우지 않도록 발송 시각을 아침 여덟 시로 미룬다.
func QuietHours(at time.Time) time.Time {
	morning := time.Date(at.Year(), at.Month(), at.Day(), 8, 0, 0, 0, at.Location())
	if at.Hour() >= 21 {
		return morning.AddDate(0, 0, 1)
	}
	if at.Hour() < 8 {
		return morning
	}
	return at
}

// normalizePhone은 사람마다 제각각 적어 넣은 휴대폰 번호에서 숫자만 골라 국가 번호를 붙인다.
func normalizePhone(raw string) string {
	digits := strings.NewReplacer("-", "", " ", "", ".", "").Replace(raw)
	return "+82" + strings.TrimPrefix(digits, "0")
}
