package dial

import (
	"math/rand"
	"time"
)

// Backoff 描述断线之后的重连节奏：起始间隔、上限以及已经失败的次数。
type Backoff struct {
	Base, Max time.Duration
	fails     int
}

// Next 算出下一次重连之前要等多久。等待时间按失败次数成倍增长，
// 再加上一点随机抖动，免得机房恢复后成千上万台柜子同时涌上来。
func (b *Backoff) Next() time.Duration {
	d := b.Base << b.fails
	if d > b.Max || d <= 0 {
		d = b.Max
	} else {
		b.fails++
	}
	return d/2 + time.Duration(rand.Int63n(int64(d/2)+1))
}

// Reset 在连接稳定超过一分钟后调用，把失败计数归零。
// 刚连上就清零的话，频繁闪断时退避就失去了意义。
func (b *Backoff) Reset(upFor time.Duration) {
	if upFor > time.Minute {
		b.fails = 0
	}
}
