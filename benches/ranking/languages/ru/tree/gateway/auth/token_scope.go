package auth

import (
	"errors"
	"strings"
	"time"
)

// ErrExpired возвращается, когда срок действия токена вышел; клиент по нему понимает, что пора обновиться.
var ErrExpired = errors.New("token expired")

// Claims описывает разобранное содержимое токена.
type Claims struct {
	Subject string
	Scopes  []string
	Expires time.Time
}

// CheckExpiry проверяет срок годности с допуском в полминуты: часы на кассовых терминалах
// вечно убегают, и без поблажки людей выкидывало из системы посреди продажи.
func CheckExpiry(c Claims, now time.Time) error {
	const skew = 30 * time.Second
	if now.After(c.Expires.Add(skew)) {
		return ErrExpired
	}
	return nil
}

// Allows отвечает, покрывают ли области доступа токена нужное действие. Звёздочка на конце
// открывает целый раздел: "lifts:*" годится и для "lifts:stop".
func Allows(c Claims, action string) bool {
	for _, scope := range c.Scopes {
		if scope == action {
			return true
		}
		if prefix, ok := strings.CutSuffix(scope, "*"); ok && strings.HasPrefix(action, prefix) {
			return true
		}
	}
	return false
}
