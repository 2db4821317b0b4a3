package upgrade

import (
	"crypto/ed25519"
	"errors"
	"os"
)

// Slots 管理固件的两个启动分区，一个正在运行，另一个用来接收新版本。
type Slots struct {
	Active, Spare string
	MaxTries      int
}

// Stage 把新固件写进备用分区。写之前先核对厂家的数字签名，
// 来路不明的镜像一律拒收，免得柜子被人刷成恶意程序。
func (s *Slots) Stage(image, sig []byte, pub ed25519.PublicKey) error {
	if !ed25519.Verify(pub, image, sig) {
		return errors.New("bad signature")
	}
	return os.WriteFile(s.Spare, image, 0o600)
}

// AfterBoot 在开机自检结束时调用：新版本连续几次启动失败，就回滚到旧分区。
// 自检通过则把新分区正式标记为当前版本。
func (s *Slots) AfterBoot(healthy bool, tries int) (rollback bool) {
	if healthy {
		return false
	}
	if tries < s.MaxTries {
		return false
	}
	s.Active, s.Spare = s.Spare, s.Active
	return true
}
