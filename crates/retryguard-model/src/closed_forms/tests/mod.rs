mod forms;
mod independent;
mod limits;

use super::{Attempts, Buffer, Load};

fn load(load: f64) -> Load {
    Load::new(load).unwrap()
}

fn attempts(attempts: u32) -> Attempts {
    Attempts::new(attempts).unwrap()
}

fn buffer(places: u32) -> Buffer {
    Buffer::new(places).unwrap()
}
