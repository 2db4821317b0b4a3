package server

import (
	"container/list"
	"sync"
)

// entry はキャッシュに入れる一枚分のタイル。
type entry struct {
	key  string
	data []byte
}

// TileCache は切り出したタイルをメモリ上に保持するキャッシュ。
// 枚数ではなくバイト数の合計で上限を決める。
type TileCache struct {
	mu          sync.Mutex
	order       list.List
	index       map[string]*list.Element
	used, limit int
}

// Put はタイルを追加し、上限を超えた分だけ最も長く使われていないものから追い出す。
// 一枚で上限の四分の一を占めるような巨大なタイルは、他を押し出してしまうので入れない。
func (c *TileCache) Put(key string, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(data) > c.limit/4 || c.index[key] != nil {
		return
	}
	c.index[key] = c.order.PushFront(&entry{key, data})
	c.used += len(data)
	for c.used > c.limit {
		last := c.order.Remove(c.order.Back()).(*entry)
		delete(c.index, last.key)
		c.used -= len(last.data)
	}
}
