package storage

import (
	"os"
	"path/filepath"
	"sort"
)

// WriteAtomic은 파일을 통째로 갈아 끼운다. 임시 파일에 먼저 쓰고 이름을 바꾸기 때문에
// 도중에 전원이 나가도 반쯤 쓰다 만 내용이 남지 않는다.
func WriteAtomic(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if _, err = tmp.Write(data); err == nil {
		// 이름을 바꾸기 전에 디스크까지 확실히 내려보낸다
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// PruneSnapshots는 최신 사본 몇 개만 남기고 묵은 백업을 지운다.
// 이름에 날짜가 들어 있어 글자 순서가 곧 시간 순서가 된다.
func PruneSnapshots(dir string, keep int) error {
	names, err := filepath.Glob(filepath.Join(dir, "snap-*.tar"))
	if err != nil || len(names) <= keep {
		return err
	}
	sort.Strings(names)
	for _, name := range names[:len(names)-keep] {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}
