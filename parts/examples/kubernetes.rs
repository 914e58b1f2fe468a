//! A Kubernetes API server on loopback to try things on, with Istio's VirtualService in mind: no nodes, nothing
//! runs in it. `cargo xtask parts` installs what it needs.
//!
//! Prints how to reach it, and ends with it when the input ends or Ctrl-C is pressed.

fn main() {
    let server = retryguard_parts::Kubernetes::start();
    println!("export KUBECONFIG={}", server.kubeconfig().display());
    let mut line = String::new();
    // Whatever the input says, its end is the end.
    while std::io::stdin().read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        line.clear();
    }
}
