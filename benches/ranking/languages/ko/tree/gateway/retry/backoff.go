package retry

import (
	"errors"
	"math/rand"
	"net"
	"time"
)

const (
	baseWait = 200 * time.Millisecond
	maxWait  = 30 * time.Second
)

// NextWait는 다음 재시도까지 얼마나 기다릴지 계산한다. 실패할 때마다 간격을 두 배로 늘리되
// 상한에서 멈추고, 단말들이 동시에 다시 두드리지 않게 무작위 흔들림을 섞는다.
func NextWait(attempt int) time.Duration {
	wait := baseWait
	for i := 0; i < attempt && wait < maxWait; i++ {
		wait *= 2
	}
	if wait > maxWait {
		wait = maxWait
	}
	return wait/2 + time.Duration(rand.Int63n(int64(wait/2)))
}

// WorthRetrying은 다시 해 볼 만한 오류인지 가려낸다. 일시적인 네트워크 장애라면 참이지만
// 잘못된 요청처럼 백 번을 보내도 똑같이 실패할 오류에는 거짓을 돌려준다.
func WorthRetrying(err error) bool {
	var netErr net.Error
	if errors.As(err, &netErr) {
		return netErr.Timeout()
	}
	var status interface{ StatusCode() int }
	if errors.As(err, &status) {
		// 429는 잠시 뒤에 오라는 뜻이다
		return status.StatusCode() == 429 || status.StatusCode() >= 500
	}
	return false
}
