package dial

import (
	"context"
	"errors"
	"time"
)

// ErrSilent 表示对端太久没有回应心跳，链路多半已经断了。
var ErrSilent = errors.New("peer silent")

// Pinger 是能够发送探活报文的连接。
type Pinger interface {
	Ping(ctx context.Context) error
}

// KeepAlive 定时向服务器发送心跳包，连续丢失三次应答就判定连接失效并返回错误。
// 移动网络会悄悄回收空闲的映射，不发心跳的话下行指令就到不了柜子。
func KeepAlive(ctx context.Context, p Pinger, every time.Duration) error {
	missed := 0
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if p.Ping(ctx) == nil {
				missed = 0
				continue
			}
			// 偶尔丢一个包很正常，先记着
			if missed++; missed >= 3 {
				return ErrSilent
			}
		}
	}
}
