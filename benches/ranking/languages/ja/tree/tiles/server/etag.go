package server

import (
	"crypto/sha1"
	"encoding/hex"
	"net/http"
	"strings"
)

// Etag はタイルの中身と透かしの設定から識別子を作る。
// 透かしだけを変更したときも、ブラウザーに残った古い画像が使われないようにする。
func Etag(data []byte, watermark string) string {
	h := sha1.New()
	h.Write(data)
	h.Write([]byte{0})
	h.Write([]byte(watermark))
	return `"` + hex.EncodeToString(h.Sum(nil)) + `"`
}

// NotModified はブラウザーが同じ版をすでに持っているなら 304 を返し、本文の送信を省く。
func NotModified(w http.ResponseWriter, r *http.Request, tag string) bool {
	for _, t := range strings.Split(r.Header.Get("If-None-Match"), ",") {
		if strings.TrimSpace(t) == tag {
			w.WriteHeader(http.StatusNotModified)
			return true
		}
	}
	return false
}
