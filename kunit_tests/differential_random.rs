// SPDX-License-Identifier: GPL-2.0

//! Random numbers that are the same for the same seed, on every machine.

/// A generator: splitmix64.
pub(crate) struct Random(u64);

impl Random {
    /// The generator of a case.
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        let mut this = Self(seed);
        let start = this.next() ^ number.wrapping_mul(0xd134_2543_de82_ef95);

        Self(start)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);

        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 where `n` is.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        if n <= 1 << 32 {
            // 32 bits are as good and spare a division.
            return ((self.next() >> 32) * n) >> 32;
        }
        self.next() % n
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn choose<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let i = self.below(from.len() as u64) as usize;

        &from[i]
    }

    /// Any number, most of them small, some at the end of their range.
    pub(crate) fn wild(&mut self) -> u32 {
        match self.below(8) {
            0 => u32::MAX - self.below(3) as u32,
            1 => u32::MAX / 3 - 1 + self.below(4) as u32,
            2 => self.next() as u32,
            3 => 0,
            _ => self.below(5000) as u32,
        }
    }

    /// A number of SGEs, rarely none.
    pub(crate) fn limit(&mut self) -> u32 {
        match self.below(60) {
            0 => 0,
            1..=14 => 1,
            15..=34 => 2 + self.below(4) as u32,
            35..=54 => 2 + self.below(31) as u32,
            _ => 200 + self.below(200) as u32,
        }
    }

    /// A number of pages of an MR, rarely none.
    pub(crate) fn pages(&mut self) -> u32 {
        match self.below(60) {
            0 => 0,
            1..=9 => 1,
            10..=34 => 2 + self.below(7) as u32,
            35..=44 => 9 + self.below(56) as u32,
            45..=56 => 256,
            _ => 257 + self.below(1 << 16) as u32,
        }
    }

    /// A remote address, now and then one from which addresses wrap.
    pub(crate) fn address(&mut self) -> u64 {
        if self.one_in(12) {
            0u64.wrapping_sub(self.below(1 << 16))
        } else {
            self.next() >> self.below(40)
        }
    }
}
