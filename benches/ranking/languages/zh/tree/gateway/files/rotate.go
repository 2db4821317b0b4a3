package files

import (
	"fmt"
	"os"
)

// Rotator 负责运行日志的切分，超过设定大小就换一个新文件。
type Rotator struct {
	Path    string
	MaxSize int64
	Keep    int
}

// MaybeRotate 检查日志文件的大小，太大时依次给旧文件改名并腾出位置。
// 最老的一份会被丢弃，所以网关的小硬盘不会被日志塞满。
func (r Rotator) MaybeRotate() error {
	st, err := os.Stat(r.Path)
	if err != nil || st.Size() < r.MaxSize {
		return err
	}
	for i := r.Keep - 1; i > 0; i-- {
		os.Rename(r.name(i), r.name(i+1))
	}
	return os.Rename(r.Path, r.name(1))
}

// name 拼出第几份历史日志的文件名。
func (r Rotator) name(i int) string {
	return fmt.Sprintf("%s.%d", r.Path, i)
}
