package auth

import (
	"sync"
	"time"
)

// session помнит, чей это сеанс и когда по нему приходили в последний раз.
type session struct {
	user string
	seen time.Time
}

// SessionStore хранит открытые сеансы в памяти шлюза. Переживать перезапуск им незачем:
// пользователь просто войдёт заново.
type SessionStore struct {
	mu   sync.Mutex
	idle time.Duration
	byID map[string]session
}

// Touch продлевает сеанс при каждом обращении и возвращает имя пользователя.
// Если человек слишком долго ничего не делал, сеанс закрывается.
func (s *SessionStore) Touch(id string, now time.Time) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cur, ok := s.byID[id]
	if !ok || now.Sub(cur.seen) > s.idle {
		delete(s.byID, id)
		return "", false
	}
	s.byID[id] = session{cur.user, now}
	return cur.user, true
}

// KickOthers завершает все остальные сеансы пользователя, кроме текущего. Нужен после смены пароля.
func (s *SessionStore) KickOthers(user, keep string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, cur := range s.byID {
		if cur.user == user && id != keep {
			delete(s.byID, id)
		}
	}
}
