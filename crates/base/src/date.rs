//! Points in time for people.

/// Returns seconds since 1970 as date and time, to the minute. The date is that of Howard Hinnant's
/// `civil_from_days`.
pub fn utc_text(since_1970: u64) -> String {
    let (days, minutes) = (since_1970 / 86_400 + 719_468, since_1970 % 86_400 / 60);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    // Years that begin in March have their odd day at the end.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + next;
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc_text(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc_text(951_782_399), "2000-02-28 23:59 UTC");
        assert_eq!(utc_text(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(utc_text(1_795_478_400), "2026-11-24 00:00 UTC");
        assert_eq!(utc_text(4_107_542_400), "2100-03-01 00:00 UTC", "no leap year");
    }
}
