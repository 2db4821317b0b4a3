package gateway

import (
	"sort"
	"time"
)

// Pulse는 보관함 단말이 일 분마다 보내오는 생존 신호이다.
type Pulse struct {
	LockerID string
	At       time.Time
	Battery  int
}

// SilentLockers는 한동안 신호가 끊긴 단말을 추려 낸다. 통신이 원래 불안한 지하 지점에는
// 기다려 주는 시간을 두 배로 잡아 헛된 출동을 줄인다.
func SilentLockers(last map[string]Pulse, underground map[string]bool, now time.Time, grace time.Duration) []string {
	var silent []string
	for id, p := range last {
		limit := grace
		if underground[id] {
			limit *= 2
		}
		if now.Sub(p.At) > limit {
			silent = append(silent, id)
		}
	}
	sort.Strings(silent)
	return silent
}

// BatteryTrend는 최근 신호들로부터 배터리가 시간당 몇 퍼센트씩 닳는지 어림한다.
// 교체 시기를 미리 잡아 기사의 방문 일정을 짜는 데 쓴다.
func BatteryTrend(history []Pulse) float64 {
	if len(history) < 2 {
		return 0
	}
	first, last := history[0], history[len(history)-1]
	hours := last.At.Sub(first.At).Hours()
	return float64(first.Battery-last.Battery) / hours
}
