package origin

import (
	"sync"
	"time"
)

// Breaker は保存庫の障害時に要求を遮断する回路遮断器。
type Breaker struct {
	mu        sync.Mutex
	failures  int
	openUntil time.Time
}

// Allow は保存庫へ問い合わせてよいかを返す。遮断中は即座に断ることで、
// 応答しない相手を待つ処理が溜まって配信サーバーまで共倒れになるのを防ぐ。
func (b *Breaker) Allow(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !now.Before(b.openUntil)
}

// Report は問い合わせの成否を記録する。五回続けて失敗すると三十秒間遮断し、
// 一度でも成功すれば数え直す。
func (b *Breaker) Report(ok bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ok {
		b.failures = 0
		return
	}
	if b.failures++; b.failures >= 5 {
		b.openUntil = now.Add(30 * time.Second)
		b.failures = 0
	}
}
