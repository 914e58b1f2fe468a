//! Prints one world of a draw: `cargo run -p retryguard-sim --example drawn -- SEED NUMBER`.

fn main() -> Result<(), std::num::ParseIntError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seed = arguments.first().map_or(Ok(1), |text| text.parse())?;
    for number in arguments.iter().skip(1) {
        print!(
            "{}",
            retryguard_sim::draw::world(retryguard_sim::streams::Seed(seed), number.parse()?).text
        );
    }
    Ok(())
}
