package outbox

import (
	"sync"
	"time"
)

// Seen 记住最近处理过的指令编号，用来识别服务器重复下发的命令。
type Seen struct {
	mu   sync.Mutex
	when map[string]time.Time
	Keep time.Duration
}

// FirstTime 判断某条指令是不是头一回收到。服务端超时会重发同一条开门指令，
// 如果不做幂等处理，柜门就会莫名其妙地弹开第二次。
func (s *Seen) FirstTime(id string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.when == nil {
		s.when = map[string]time.Time{}
	}
	if _, dup := s.when[id]; dup {
		return false
	}
	s.when[id] = now
	return true
}

// Sweep 清理早已过期的指令编号，防止这张表无限膨胀占满内存。
func (s *Seen) Sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, t := range s.when {
		if now.Sub(t) > s.Keep {
			delete(s.when, id)
		}
	}
}
