//! Pairs of members of the same drawer.

type Places = Vec<i64>;

/// Drawers with at least two members. A key is the drawer's name, and in its last bits the member's position.
pub struct Mates {
    keys: Vec<u64>, // ascending
    position_bits: u32,
    crowds: Vec<Places>,
    one: usize, // the next pair, if both are in one drawer
    other: usize,
}

impl Mates {
    /// keys: ascending; most: the members of a drawer that are paired with each other, those of larger ones are crowds.
    pub fn new(keys: &[u64], position_bits: u32, most: usize) -> Self {
        let mut mates = Mates { keys: vec![], position_bits, crowds: vec![], one: 0, other: 1 };
        for drawer in keys.chunk_by(|one, other| (one ^ other) >> position_bits == 0).filter(|drawer| drawer.len() > 1)
        {
            if drawer.len() > most {
                mates.crowds.push(mates.places(drawer));
            } else {
                mates.keys.extend_from_slice(drawer);
            }
        }
        mates
    }

    /// The positions in each larger drawer, ascending.
    pub fn crowds(&self) -> &[Places] {
        &self.crowds
    }

    /// The positions in the other drawers.
    pub fn members(&self) -> Places {
        self.places(&self.keys)
    }

    /// The next pairs of positions, the lesser ones and the greater ones: at most so many. None if there are no more.
    pub fn step(&mut self, most: usize) -> Option<[Places; 2]> {
        let mut found = [vec![], vec![]];
        while found[0].len() < most && self.one + 1 < self.keys.len() {
            let one = self.keys[self.one];
            match self.keys.get(self.other) {
                Some(&other) if (one ^ other) >> self.position_bits == 0 => {
                    found[0].push(self.place(one));
                    found[1].push(self.place(other));
                    self.other += 1;
                }
                _ => {
                    self.one += 1;
                    self.other = self.one + 1;
                }
            }
        }
        (!found[0].is_empty()).then_some(found)
    }

    fn places(&self, keys: &[u64]) -> Places {
        keys.iter().map(|&key| self.place(key)).collect()
    }

    fn place(&self, key: u64) -> i64 {
        (key & ((1 << self.position_bits) - 1)) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_in_a_drawer_is_made_once_in_steps_of_any_size() {
        let drawers = [7u64, 3, 7, 1, 3, 7, 7, 9, 3];
        let mut keys: Vec<u64> = drawers.iter().enumerate().map(|(place, name)| name << 4 | place as u64).collect();
        keys.sort_unstable();
        let wanted: Vec<(i64, i64)> = vec![(0, 2), (0, 5), (0, 6), (1, 4), (1, 8), (2, 5), (2, 6), (4, 8), (5, 6)];
        for at_once in 1..11 {
            let mut mates = Mates::new(&keys, 4, 4);
            let mut found = vec![];
            while let Some([one, other]) = mates.step(at_once) {
                assert!(one.len() <= at_once);
                found.extend(one.into_iter().zip(other));
            }
            found.sort_unstable();
            assert_eq!(found, wanted);
        }
        let mut few = Mates::new(&keys, 4, 3);
        assert_eq!((few.crowds(), few.members()), (&[vec![0, 2, 5, 6]][..], vec![1, 4, 8]));
        assert_eq!(few.step(9), Some([vec![1, 1, 4], vec![4, 8, 8]]));
        assert_eq!((few.step(9), Mates::new(&[], 0, 4).step(9)), (None, None));
    }
}
