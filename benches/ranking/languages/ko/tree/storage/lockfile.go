package storage

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
)

var ErrBusy = errors.New("다른 프로세스가 이미 작업 중입니다")

// Grab은 같은 배치가 두 번 겹쳐 돌지 않도록 잠금 파일을 만든다. 파일이 이미 있으면
// 주인이 아직 살아 있는지 보고, 죽은 프로세스가 남긴 찌꺼기라면 치우고 다시 잡는다.
func Grab(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		if ownerAlive(path) {
			return ErrBusy
		}
		os.Remove(path)
		return Grab(path)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(strconv.Itoa(os.Getpid()))
	return err
}

// ownerAlive는 잠금 파일에 적힌 프로세스 번호로 0번 시그널을 보내 생사를 확인한다.
func ownerAlive(path string) bool {
	raw, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	return err == nil && syscall.Kill(pid, 0) == nil
}
