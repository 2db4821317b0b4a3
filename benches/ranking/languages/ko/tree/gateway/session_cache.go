package gateway

import (
	"sync"
	"time"
)

type cachedSession struct {
	userID  string
	expires time.Time
}

// SessionCache는 로그인 세션을 메모리에 잠깐 담아 두어 요청마다 데이터베이스를 조회하지 않게 한다.
type SessionCache struct {
	mu    sync.RWMutex
	items map[string]cachedSession
	ttl   time.Duration
}

// Lookup은 세션 토큰으로 사용자를 찾는다. 유효 기간이 지난 항목은 없는 것으로 친다.
func (c *SessionCache) Lookup(token string, now time.Time) (string, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s, ok := c.items[token]
	if !ok || now.After(s.expires) {
		return "", false
	}
	return s.userID, true
}

// KickUser는 비밀번호를 바꾼 사용자를 모든 기기에서 로그아웃시킨다. 훔친 토큰이
// 캐시에 남아 계속 통하는 일을 막으려면 저장소보다 캐시를 먼저 비워야 한다.
func (c *SessionCache) KickUser(userID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for token, s := range c.items {
		if s.userID == userID {
			delete(c.items, token)
		}
	}
}
