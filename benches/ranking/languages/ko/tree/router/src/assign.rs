/// 보관함의 칸 하나. 크기는 안쪽 치수를 밀리미터로 적는다.
#[derive(Clone, Debug)]
pub struct Kan {
    pub no: u16,
    pub dims: [u32; 3],
    pub taken: bool,
    pub broken: bool,
}

/// 택배 상자가 들어가는 칸 가운데 가장 작은 것을 고른다. 작은 물건이 큰 칸을 차지해 버리면
/// 정작 큰 물건이 왔을 때 넣을 데가 없기 때문이다. 상자는 아무 방향으로나 돌려 넣을 수 있다.
pub fn pick_kan<'a>(kans: &'a [Kan], parcel: [u32; 3]) -> Option<&'a Kan> {
    let mut want = parcel;
    want.sort_unstable();
    kans.iter()
        .filter(|k| !k.taken && !k.broken)
        .filter(|k| {
            let mut inner = k.dims;
            inner.sort_unstable();
            inner.iter().zip(want.iter()).all(|(a, b)| a >= b)
        })
        .min_by_key(|k| k.dims.iter().map(|&d| d as u64).product::<u64>())
}

/// 허리를 굽히기 힘든 고객에게는 손이 닿기 편한 가운데 높이의 칸을 먼저 내준다.
pub fn prefer_reachable(mut free: Vec<(Kan, u32)>) -> Vec<(Kan, u32)> {
    const CHEST_MM: i64 = 1100;
    free.sort_by_key(|(_, height)| (*height as i64 - CHEST_MM).abs());
    free
}

/// 지점이 얼마나 붐비는지를 백분율로 나타낸다. 고장 난 칸은 분모에서 뺀다.
pub fn occupancy(kans: &[Kan]) -> u32 {
    let usable = kans.iter().filter(|k| !k.broken).count();
    let taken = kans.iter().filter(|k| !k.broken && k.taken).count();
    if usable == 0 { 100 } else { (taken * 100 / usable) as u32 }
}
