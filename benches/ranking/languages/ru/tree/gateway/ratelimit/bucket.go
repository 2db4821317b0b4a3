package ratelimit

import (
	"net"
	"sync"
	"time"
)

// Bucket ограничивает частоту запросов по принципу дырявого ведра: жетоны капают равномерно,
// а накопленный запас позволяет пережить короткий всплеск.
type Bucket struct {
	mu     sync.Mutex
	Rate   float64
	Burst  float64
	tokens float64
	last   time.Time
}

// Take забирает один жетон. Если ведро пусто, сообщает, сколько ждать до следующего,
// это число уходит в заголовок Retry-After.
func (b *Bucket) Take(now time.Time) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(b.Burst, b.tokens+now.Sub(b.last).Seconds()*b.Rate)
	b.last = now
	if b.tokens >= 1 {
		b.tokens--
		return 0, true
	}
	return time.Duration((1 - b.tokens) / b.Rate * float64(time.Second)), false
}

// ClientKey выбирает, кого именно считать одним клиентом. Для IPv6 обрезаем адрес до /64,
// иначе любой абонент обходит лимит, меняя младшие биты.
func ClientKey(addr string) string {
	ip := net.ParseIP(addr)
	if ip == nil || ip.To4() != nil {
		return addr
	}
	return ip.Mask(net.CIDRMask(64, 128)).String()
}
