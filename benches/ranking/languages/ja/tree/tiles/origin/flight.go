package origin

import "sync"

// call は進行中の読み出し一件。
type call struct {
	done chan struct{}
	data []byte
	err  error
}

// Flight は同じ原本に対する同時の読み出しを一つにまとめる。
type Flight struct {
	mu    sync.Mutex
	calls map[string]*call
}

// Do は最初に来た要求だけが実際に読み出しを行い、あとから来たものは結果を待って分け合う。
// 新聞で紹介された資料に閲覧が殺到しても、保存庫の負荷は一回分で済む。
func (f *Flight) Do(id string, load func() ([]byte, error)) ([]byte, error) {
	f.mu.Lock()
	if c, ok := f.calls[id]; ok {
		f.mu.Unlock()
		<-c.done
		return c.data, c.err
	}
	c := &call{done: make(chan struct{})}
	if f.calls == nil {
		f.calls = map[string]*call{}
	}
	f.calls[id] = c
	f.mu.Unlock()

	c.data, c.err = load()
	close(c.done)
	f.mu.Lock()
	delete(f.calls, id)
	f.mu.Unlock()
	return c.data, c.err
}
