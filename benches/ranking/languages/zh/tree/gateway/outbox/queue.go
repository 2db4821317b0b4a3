package outbox

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sort"
	"strconv"
)

// Outbox 是离线期间的发件箱，每条上报消息存成一个小文件。
type Outbox struct{ Dir string }

// Put 把一条上报消息写入磁盘。先写临时文件再改名，
// 即使写到一半断电，也不会留下残缺的消息。
func (o Outbox) Put(seq uint64, msg any) error {
	raw, err := json.Marshal(msg)
	if err != nil {
		return err
	}
	name := filepath.Join(o.Dir, strconv.FormatUint(seq, 36)+".msg")
	if err := os.WriteFile(name+".tmp", raw, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".tmp", name)
}

// Drain 网络恢复后按先后顺序补发积压的消息，发送成功一条删除一条。
// 一旦遇到错误立刻停下，剩下的留到下一轮，保证顺序不乱。
func (o Outbox) Drain(send func([]byte) error) error {
	names, _ := filepath.Glob(filepath.Join(o.Dir, "*.msg"))
	sort.Strings(names)
	for _, n := range names {
		raw, err := os.ReadFile(n)
		if err == nil {
			err = send(raw)
		}
		if err != nil {
			return err
		}
		os.Remove(n)
	}
	return nil
}
