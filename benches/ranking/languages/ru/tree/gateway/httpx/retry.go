package httpx

import (
	"context"
	"math/rand"
	"net/http"
	"strconv"
	"time"
)

// Backoff считает задержку перед очередной попыткой: экспонента со случайным разбросом,
// чтобы сотня терминалов не ломилась на сервер в одну и ту же секунду.
func Backoff(attempt int, base, limit time.Duration) time.Duration {
	d := base << attempt
	if d > limit || d <= 0 {
		d = limit
	}
	return d/2 + time.Duration(rand.Int63n(int64(d/2)+1))
}

// Retryable решает, имеет ли смысл повторять запрос. Ошибки клиента не повторяем, кроме 429,
// и никогда не трогаем неидемпотентные методы.
func Retryable(method string, status int) bool {
	if method != http.MethodGet && method != http.MethodPut && method != http.MethodDelete {
		return false
	}
	return status == http.StatusTooManyRequests || status >= 500
}

// Sleep ждёт нужное время или отмену контекста, смотря что раньше. Подсказка сервера
// из заголовка Retry-After главнее нашего расчёта.
func Sleep(ctx context.Context, resp *http.Response, d time.Duration) error {
	if sec, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		d = time.Duration(sec) * time.Second
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
