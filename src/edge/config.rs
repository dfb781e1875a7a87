//! The owner's settings, out of the Worker's variables and secrets.

use std::cell::OnceCell;
use std::rc::Rc;

use wasm_bindgen::JsValue;
use worker::Env;

use crate::domain::settings::{SettingError, Settings};

/// The settings, or everything that is wrong with them.
pub type Checked = Result<Rc<Settings>, Rc<[SettingError]>>;

/// Reads and checks the settings. Variables cannot change while the code runs, so this happens once.
pub fn settings(env: &Env) -> Checked {
    thread_local! {
        static SETTINGS: OnceCell<Checked> = const { OnceCell::new() };
    }
    let check = || Settings::from_vars(|name| variable(env, name)).map(Rc::new).map_err(Rc::from);
    SETTINGS.with(|cell| cell.get_or_init(check).clone())
}

/// A variable as text. `wrangler.toml` may hold it as a number or a truth value; one that is missing comes as undefined, or
/// as null where workerd takes it from the environment.
fn variable(env: &Env, name: &str) -> Option<String> {
    let value = js_sys::Reflect::get(env, &JsValue::from_str(name)).ok()?;
    if let Some(truth) = value.as_bool() {
        return Some(truth.to_string());
    }
    value.as_string().or_else(|| value.as_f64().map(|number| number.to_string()))
}
