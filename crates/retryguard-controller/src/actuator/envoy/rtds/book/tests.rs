use super::*;

fn subscribe(version: &str) -> Ask {
    Ask {
        wants: Some(true),
        version: version.to_owned(),
        ..Ask::default()
    }
}

fn accept(saying: &Saying) -> Ask {
    Ask {
        wants: Some(true),
        version: saying.layer.version.clone(),
        nonce: saying.nonce.clone(),
        ..Ask::default()
    }
}

fn serving() -> Book {
    let mut book = Book::new(BTreeMap::new());
    book.learn();
    book.serve([["a".to_owned()].as_slice()].into_iter());
    book
}

#[test]
fn nobody_is_taken_before_we_act_and_nobody_is_told_before_we_know() {
    let mut book = Book::new(BTreeMap::new());
    assert_eq!(book.joins("x"), Err(NoEntry::NotActing));
    book.learn();
    let stream = book.joins("x").unwrap();
    book.hears(stream, &subscribe("retryguard/1 a=off"));
    assert_eq!(book.says(stream), None);
    book.serve([["a".to_owned()].as_slice()].into_iter());
    assert_eq!(book.says(stream).unwrap().layer.version, "retryguard/1 a=off");
    book.rest();
    assert_eq!(book.joins("x"), Err(NoEntry::NotActing));
    assert!(!book.owes(stream));
}

#[test]
fn the_strictest_of_what_is_presented_holds_for_all_clusters_of_a_target() {
    let mut book = Book::new(BTreeMap::new());
    book.learn();
    for version in [
        "retryguard/1 a=1/250000000 stray=off",
        "retryguard/1 b=off",
        "7",
        "",
    ] {
        let stream = book.joins("x").unwrap();
        book.hears(stream, &subscribe(version));
    }
    let target = ["a".to_owned(), "b".to_owned()];
    book.serve([target.as_slice()].into_iter());
    assert_eq!(book.layer().version, "retryguard/1 a=off b=off");
}

#[test]
fn a_version_that_comes_back_must_be_accepted_anew() {
    let mut book = serving();
    let stream = book.joins("x").unwrap();
    book.hears(stream, &subscribe(""));
    let first = book.says(stream).unwrap();
    book.hears(stream, &accept(&first));
    assert!(book.reach().complete());
    book.want("a", Wish::Off).unwrap();
    assert!(!book.reach().complete());
    let second = book.says(stream).unwrap();
    book.want("a", Wish::Original).unwrap();
    // The word about the second comes when the third is wanted already.
    book.hears(stream, &accept(&second));
    assert!(!book.reach().complete());
    let third = book.says(stream).unwrap();
    assert_eq!(third.layer.version, first.layer.version);
    // A late word about the first says nothing about the third.
    book.hears(stream, &accept(&first));
    assert!(!book.reach().complete());
    book.hears(stream, &accept(&third));
    assert!(book.reach().complete());
}

#[test]
fn one_that_is_late_is_not_waited_for_until_it_answers() {
    let mut book = serving();
    let stream = book.joins("x").unwrap();
    book.hears(stream, &subscribe(""));
    let saying = book.says(stream).unwrap();
    book.give_up();
    assert_eq!((book.reach().late, book.reach().complete()), (1, true));
    book.want("a", Wish::Off).unwrap();
    assert!(book.reach().complete());
    book.hears(stream, &accept(&saying));
    assert!(!book.reach().complete());
}

#[test]
fn streams_clusters_and_memories_have_limits() {
    let mut book = serving();
    let streams: Vec<Stream> = (0..MOST_STREAMS).map(|_| book.joins("x").unwrap()).collect();
    assert_eq!(book.joins("x"), Err(NoEntry::Full));
    for (number, stream) in streams.iter().enumerate() {
        let node = Some(Who {
            id: number.to_string(),
            service: String::new(),
        });
        book.hears(
            *stream,
            &Ask {
                node,
                ..subscribe("")
            },
        );
        book.leaves(*stream);
    }
    assert_eq!(book.nodes().1.count(), MOST_GONE);
    assert!(book.joins("x").is_ok());
    let full = (0..MOST_CLUSTERS).map(|number| (number.to_string(), Wish::Off));
    book.wishes = full.collect();
    assert_eq!(book.want("one-more", Wish::Off), Err(TooMany));
    assert_eq!(book.want("0", Wish::Original), Ok(()));
    assert_eq!(book.want("one-more", Wish::Off), Ok(()));
}

#[test]
fn texts_of_a_node_are_clipped() {
    let mut book = serving();
    let stream = book.joins(&"x".repeat(LONGEST_TEXT + 1)).unwrap();
    let foreign = Some("y".repeat(LONGEST_TEXT + 1));
    book.hears(
        stream,
        &Ask {
            foreign,
            ..subscribe("")
        },
    );
    let saying = book.says(stream).unwrap();
    let refusal = Some("z".repeat(LONGEST_TEXT + 1));
    book.hears(
        stream,
        &Ask {
            refusal,
            ..accept(&saying)
        },
    );
    let node = book.nodes().0.next().unwrap();
    let message = &node.refused.as_ref().unwrap().1;
    for text in [&node.address, node.foreign.as_ref().unwrap(), message] {
        assert_eq!(text.len(), LONGEST_TEXT);
    }
}
