package server

// Level は画像ピラミッドの一段分の大きさを表す。
type Level struct{ Width, Height, Cols, Rows int }

// Pyramid は原寸の画像を半分ずつ縮小していき、全体が一枚のタイルに収まるまでの
// 各段の寸法を計算する。閲覧者が拡大した度合いに応じて必要な段だけを配信できる。
func Pyramid(w, h, tile int) []Level {
	var out []Level
	for {
		out = append(out, Level{w, h, ceilDiv(w, tile), ceilDiv(h, tile)})
		if w <= tile && h <= tile {
			return out
		}
		w, h = ceilDiv(w, 2), ceilDiv(h, 2)
	}
}

// PickLevel は要求された表示幅以上でいちばん小さい段を選ぶ。
// 小さい段を引き伸ばすとぼやけてしまい、くずし字が読めなくなる。
func PickLevel(levels []Level, want int) int {
	best := 0
	for i, l := range levels {
		if l.Width >= want {
			best = i
		}
	}
	return best
}

// ceilDiv は端数を切り上げる割り算。
func ceilDiv(a, b int) int { return (a + b - 1) / b }
