use super::*;

#[test]
fn disk_budgets_warn_before_they_are_exceeded() {
    let severity = |used, most| budget("b", used, most, "bytes").severity;
    assert_eq!(severity(0, 10), Severity::Ok);
    assert_eq!(severity(8, 10), Severity::Ok);
    assert_eq!(severity(9, 10), Severity::Warn);
    assert_eq!(severity(10, 10), Severity::Warn);
    assert_eq!(severity(11, 10), Severity::Fail);
    assert_eq!(severity(u64::MAX, u64::MAX), Severity::Warn);
}
