use std::collections::{HashMap, VecDeque};

/// 배송 경로 계산 결과를 담는 고정 크기 캐시. 자리가 모자라면 가장 오랫동안
/// 쓰이지 않은 경로부터 내쫓는다.
pub struct RouteCache {
    cap: usize,
    map: HashMap<u64, Vec<u32>>,
    order: VecDeque<u64>,
}

impl RouteCache {
    pub fn new(cap: usize) -> Self {
        Self { cap, map: HashMap::new(), order: VecDeque::new() }
    }

    /// 경로를 꺼내면서 방금 쓰인 것으로 표시해 밀려나지 않게 한다.
    pub fn touch(&mut self, key: u64) -> Option<&Vec<u32>> {
        if self.map.contains_key(&key) {
            self.order.retain(|k| *k != key);
            self.order.push_back(key);
        }
        self.map.get(&key)
    }

    /// 도로 통제가 걸린 구간을 지나는 경로를 캐시에서 모두 걷어 낸다.
    /// 그대로 두면 기사가 막힌 길로 안내받는다.
    pub fn drop_through(&mut self, segment: u32) {
        self.map.retain(|_, path| !path.contains(&segment));
        let map = &self.map;
        self.order.retain(|k| map.contains_key(k));
    }

    pub fn put(&mut self, key: u64, path: Vec<u32>) {
        if self.map.insert(key, path).is_none() {
            self.order.push_back(key);
        }
        while self.map.len() > self.cap {
            // 맨 앞이 가장 묵은 것이다
            if let Some(old) = self.order.pop_front() { self.map.remove(&old); }
        }
    }
}
