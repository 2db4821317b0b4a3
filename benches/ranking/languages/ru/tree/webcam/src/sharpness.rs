/// Кадр в оттенках серого, построчно.
pub struct Gray {
    pub width: usize,
    pub height: usize,
    pub pixels: Vec<u8>,
}

/// Оценивает резкость снимка по разбросу лапласиана. Малое значение говорит, что объектив
/// запотел или залеплен снегом и кадр публиковать не стоит.
pub fn sharpness(img: &Gray) -> f64 {
    let at = |x: usize, y: usize| f64::from(img.pixels[y * img.width + x]);
    let mut values = Vec::new();
    for y in 1..img.height - 1 {
        for x in 1..img.width - 1 {
            values.push(at(x - 1, y) + at(x + 1, y) + at(x, y - 1) + at(x, y + 1) - 4.0 * at(x, y));
        }
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n
}

/// Растягивает контраст так, чтобы самые тёмные и самые светлые точки заняли весь диапазон.
/// По одному проценту с краёв отбрасываем: блик от фонаря иначе портит всё.
pub fn stretch_contrast(img: &mut Gray) {
    let mut sorted = img.pixels.clone();
    sorted.sort_unstable();
    let cut = sorted.len() / 100;
    let (low, high) = (sorted[cut], sorted[sorted.len() - 1 - cut]);
    let span = u32::from(high.saturating_sub(low)).max(1);
    for p in &mut img.pixels {
        let shifted = u32::from(p.saturating_sub(low)) * 255 / span;
        *p = shifted.min(255) as u8;
    }
}
