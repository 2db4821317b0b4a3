package clock

import "time"

// Sample 是一次对时的结果：本地发出、服务器收到、本地收回三个时刻。
type Sample struct {
	Sent, Server, Back time.Time
}

// Offset 估算本机时钟比服务器快了还是慢了多少。
// 假定来回路程耗时相同，取往返延迟的一半作为单程时间。
func (s Sample) Offset() time.Duration {
	half := s.Back.Sub(s.Sent) / 2
	return s.Server.Sub(s.Sent.Add(half))
}

// Best 从多次对时里挑出往返最短的那一次，因为网络拥堵时的样本误差太大。
func Best(all []Sample) (best Sample, ok bool) {
	for _, s := range all {
		if !ok || s.Back.Sub(s.Sent) < best.Back.Sub(best.Sent) {
			best, ok = s, true
		}
	}
	return best, ok
}

// Slew 不直接拨钟，而是每秒最多修正五毫秒，慢慢追上正确时间。
// 时钟突然倒退会让超期计费算出负数。
func Slew(off time.Duration) time.Duration {
	const step = 5 * time.Millisecond
	if off > step {
		return step
	}
	if off < -step {
		return -step
	}
	return off
}
