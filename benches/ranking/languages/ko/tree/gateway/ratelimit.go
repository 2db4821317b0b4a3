package gateway

import (
	"net/http"
	"strings"
	"time"
)

// bucket은 호출자 하나에 대한 토큰 통이다. 시간이 흐르면 토큰이 차오르고 요청마다 하나씩 줄어든다.
type bucket struct {
	level float64
	last  time.Time
}

// take는 지난번 이후 흐른 시간만큼 토큰을 보충한 다음 하나를 꺼낸다.
// 통이 비어 있으면 요청을 거절하라는 뜻으로 거짓을 돌려준다.
func (b *bucket) take(now time.Time, perSec, burst float64) bool {
	b.level += now.Sub(b.last).Seconds() * perSec
	if b.level > burst {
		b.level = burst
	}
	b.last = now
	if b.level < 1 {
		return false
	}
	b.level--
	return true
}

// callerKey는 요청 빈도를 누구 앞으로 셀지 고른다. API 키가 있으면 그것을 쓰고, 없으면
// 프록시가 적어 준 접속 주소의 맨 앞 항목을 쓴다.
func callerKey(r *http.Request) string {
	if key := r.Header.Get("X-Api-Key"); key != "" {
		return "key:" + key
	}
	// 여러 프록시를 거치면 쉼표로 이어져 들어온다
	first, _, _ := strings.Cut(r.Header.Get("X-Forwarded-For"), ",")
	return "ip:" + strings.TrimSpace(first)
}
