package retry

import "sync"

// Budget은 서비스 전체에서 재시도에 쓸 수 있는 몫을 제한한다. 뒷단이 쓰러졌을 때
// 너도나도 재시도하면 트래픽이 몇 배로 불어나 복구를 더디게 만들기 때문이다.
type Budget struct {
	mu     sync.Mutex
	tokens float64
	ratio  float64
	ceil   float64
}

// Deposit은 정상 요청이 한 번 성공할 때마다 예산을 조금 채워 넣는다.
func (b *Budget) Deposit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens += b.ratio
	if b.tokens > b.ceil {
		b.tokens = b.ceil
	}
}

// Withdraw는 재시도 한 번만큼의 예산을 꺼낸다. 잔고가 모자라면 거짓을 돌려주므로
// 부르는 쪽은 재시도를 포기하고 오류를 곧바로 사용자에게 알려야 한다.
func (b *Budget) Withdraw() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
