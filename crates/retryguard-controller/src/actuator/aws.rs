//! Lambda, SSM and AppConfig as carriers of decisions.
