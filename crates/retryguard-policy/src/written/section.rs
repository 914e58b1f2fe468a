//! The declaration of a section.

/// Declares a section: a struct with an optional, placed value for every key, its reader, its merging and its
/// description.
///
/// A line is `"key" field: Type where limits => "default", "why this default";`, with the key's meaning as its
/// documentation. A default is written as in a file, so that a test can put it into one and see that nothing
/// changes; it is empty where leaving the key out is a choice of its own.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $name:ident in $place:literal {
            $(
                $(#[doc = $doc:literal])+
                $key:literal $field:ident: $type:ty $(where $limits:expr)? => $default:literal, $why:literal;
            )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub(crate) struct $name {
            $(
                $(#[doc = $doc])+
                pub(crate) $field: Option<$crate::written::At<$type>>,
            )+
        }

        impl $name {
            pub(in $crate::written) const KEYS: &[&'static str] = &[$($key),+];
        }

        impl $crate::written::Written for $name {
            type Limits = ();

            fn read(
                node: &$crate::yaml::Node,
                key: &str,
                (): &(),
                mistakes: &mut $crate::diagnostics::Mistakes,
            ) -> Option<Self> {
                let mut section = Self::default();
                for entry in $crate::written::entries(node, key, mistakes)? {
                    match entry.key.as_str() {
                        $(
                            $key => {
                                let limits = limits!($($limits)?);
                                section.$field = <$type as $crate::written::Written>::read(
                                    &entry.value, $key, &limits, mistakes,
                                )
                                .map(|value| $crate::written::At { value, at: entry.at });
                            }
                        )+
                        _ => $crate::written::unknown_key(entry, Self::KEYS, $place, mistakes),
                    }
                }
                Some(section)
            }

            fn over(&self, base: &Self) -> Self {
                Self {
                    $($field: $crate::written::section::merged(self.$field.as_ref(), base.$field.as_ref()),)+
                }
            }

            fn form((): &()) -> $crate::written::Form {
                $crate::written::section::form(
                    &[$($about),+],
                    vec![$(
                        $crate::written::Key {
                            name: $key,
                            about: [$($doc),+].concat().trim().to_owned(),
                            default: $default,
                            why: $why,
                            form: <$type as $crate::written::Written>::form(&limits!($($limits)?)),
                        },
                    )+],
                )
            }
        }
    };
}

/// A key's limits; nothing where its type needs none.
macro_rules! limits {
    () => {
        ()
    };
    ($limits:expr) => {
        $limits
    };
}

pub(crate) use {limits, section};

use serde_json::{Map, Value, json};

use super::{At, Form, Key, Outline, Written};

/// One key of a service over the same key of the defaults.
pub(crate) fn merged<T: Written>(own: Option<&At<T>>, base: Option<&At<T>>) -> Option<At<T>> {
    match (own, base) {
        (Some(own), Some(base)) => Some(At {
            value: own.value.over(&base.value),
            at: own.at,
        }),
        (own, base) => own.or(base).cloned(),
    }
}

pub(crate) fn form(about: &[&str], keys: Vec<Key>) -> Form {
    let mut properties = Map::new();
    for key in &keys {
        let mut schema = key.form.schema.clone();
        if let Value::Object(schema) = &mut schema {
            schema.insert("description".to_owned(), json!(key.about));
        }
        properties.insert(key.name.to_owned(), schema);
    }
    let about = about.concat().trim().to_owned();
    Form {
        words: "a block of keys".to_owned(),
        schema: json!({
            "type": ["object", "null"],
            "properties": properties,
            "additionalProperties": false,
        }),
        section: Some(Outline { about, keys }),
    }
}
