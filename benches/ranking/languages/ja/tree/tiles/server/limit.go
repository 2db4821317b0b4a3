package server

import (
	"sync"
	"time"
)

// Bucket はトークンバケット方式による流量制限。
type Bucket struct {
	mu         sync.Mutex
	tokens     float64
	rate, size float64
	last       time.Time
}

// Take は一件の要求を通してよいかどうかを判定する。溜まったトークンがあれば短時間の
// 連続アクセスは許すが、画像を根こそぎ吸い上げるような機械的な巡回は弾く。
func (b *Bucket) Take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(b.size, b.tokens+now.Sub(b.last).Seconds()*b.rate)
	b.last = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// RetryAfter は次のトークンが貯まるまで何秒待てばよいかを利用者に知らせる。
func (b *Bucket) RetryAfter() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Duration((1 - b.tokens) / b.rate * float64(time.Second))
}
