package origin

import (
	"context"
	"errors"
	"time"
)

// ErrGone は原本が恒久的に削除されていて、再試行しても無駄なことを示す。
var ErrGone = errors.New("original removed")

// Loader は保存庫から原本の画像を読み出す関数。
type Loader func(ctx context.Context, id string) ([]byte, error)

// WithRetry は保存庫の読み出しに失敗したとき、待ち時間を倍々に延ばしながら再試行する。
// 削除済みとわかった資料についてはすぐに諦める。
func WithRetry(load Loader, tries int, wait time.Duration) Loader {
	return func(ctx context.Context, id string) ([]byte, error) {
		var err error
		for i := 0; i < tries; i++ {
			var data []byte
			if data, err = load(ctx, id); err == nil {
				return data, nil
			}
			if errors.Is(err, ErrGone) {
				break
			}
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(wait << i):
			}
		}
		return nil, err
	}
}
