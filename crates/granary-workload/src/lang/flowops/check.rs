//! Checks the types and locals of flowops.

use super::Composites;
use crate::lang::args::{check, check_flowop};
use crate::lang::ast::{Composite, Flowop};
use crate::lang::catalog::{COMPOSITE, FLOWOPS, flowop_type};
use crate::lang::parse::shorten;
use crate::lang::source::{Result, Source};
use crate::spec::Warning;
use granary_trace::suggest::{names, nearest};

/// Refuses unknown types and attributes, without looking at values.
pub(crate) fn check_types<'a>(
    source: &Source<'a>,
    flowops: &[Flowop<'a>],
    composites: &Composites<'_, 'a>,
    warnings: &mut Vec<Warning>,
) -> Result<()> {
    for flowop in flowops {
        if let Some(kind) = flowop_type(flowop.kind) {
            check_flowop(source, &flowop.head, kind, warnings)?;
        } else if let Some(composite) = composites.get(flowop.kind) {
            check(source, &flowop.head, &COMPOSITE, warnings)?;
            check_locals(source, flowop, composite)?;
        } else {
            let known = || FLOWOPS.iter().map(|f| f.name).chain(composites.keys().copied());
            let help = match nearest(flowop.kind, known()) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("the flowops are {}", names(FLOWOPS.iter().map(|f| f.name))),
            };
            let message = format!("there is no flowop `{}`", shorten(flowop.kind));
            return source.error(flowop.head.span, message, help);
        }
    }
    Ok(())
}

/// A use may pass only variables that the composite declares.
pub(super) fn check_locals(
    source: &Source<'_>,
    flowop: &Flowop<'_>,
    composite: &Composite<'_>,
) -> Result<()> {
    let declared = || composite.head.attrs.iter().filter(|a| a.local).map(|a| a.name);
    for attr in flowop.head.attrs.iter().filter(|a| a.local) {
        if !declared().any(|name| name == attr.name) {
            let help = match (nearest(attr.name, declared()), declared().next()) {
                (Some(near), _) => format!("did you mean `${near}`?"),
                (None, Some(_)) => format!("its variables are {}", names(declared())),
                (None, None) => "declare it: `define flowop name=..., $variable { ... }`".to_owned(),
            };
            let message =
                format!("the flowop `{}` has no variable `${}`", shorten(flowop.kind), shorten(attr.name));
            return source.error(attr.span, message, help);
        }
        if attr.value.is_none() {
            let message = format!("`${}` needs a value where the flowop is used", shorten(attr.name));
            return source.error(attr.span, message, format!("write `${}=...`", shorten(attr.name)));
        }
    }
    Ok(())
}
