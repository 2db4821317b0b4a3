package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Rotator пишет журнал в файл и начинает новый, когда текущий перерос предел.
type Rotator struct {
	Path        string
	Limit, size int64
	Keep, seq   int
	file        *os.File
}

// Write дописывает запись. Строку никогда не рвём между двумя файлами, поэтому размер проверяем до записи.
func (r *Rotator) Write(p []byte) (n int, err error) {
	if r.file == nil || r.size+int64(len(p)) > r.Limit {
		if err = r.reopen(); err != nil {
			return 0, err
		}
	}
	r.size += int64(len(p))
	return r.file.Write(p)
}

// reopen закрывает текущий файл и заводит следующий по номеру.
func (r *Rotator) reopen() (err error) {
	if r.file != nil {
		r.file.Close()
	}
	r.seq, r.size = r.seq+1, 0
	r.file, err = os.Create(fmt.Sprintf("%s.%06d", r.Path, r.seq))
	return err
}

// Prune удаляет самые старые журналы сверх положенного количества, чтобы диск на шлюзе не переполнился.
func (r *Rotator) Prune() {
	old, _ := filepath.Glob(r.Path + ".*")
	for slices.Sort(old); len(old) > r.Keep; old = old[1:] {
		os.Remove(old[0])
	}
}
