//! Chance from a seed (splitmix64): the same seed gives the same world.

use std::cell::Cell;

use taskhub::hub::Entropy;

pub struct Chance(Cell<u64>);

impl Chance {
    pub fn new(seed: u64) -> Self {
        // Mixed first: the states of neighbouring seeds must not lie in the order in which `next` takes them, or every world
        // would be the one before it, begun one number later.
        let chance = Self(Cell::new(seed));
        let state = chance.next();
        Self(Cell::new(state))
    }

    pub fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 0 to `end` - 1.
    pub fn below(&self, end: u64) -> u64 {
        self.next() % end
    }

    /// True in `percent` of a hundred cases.
    pub fn percent(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'t, T>(&self, items: &'t [T]) -> &'t T {
        &items[self.below(items.len() as u64) as usize]
    }
}

impl Entropy for Chance {
    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.next() as u8;
        }
    }
}
