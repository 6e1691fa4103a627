package forecast

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// vcal is a calendar with the lines of one event.
func vcal(lines ...string) string {
	return "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\n" + strings.Join(lines, "\r\n") + "\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
}

func TestReadICal(t *testing.T) {
	for text, want := range map[string]string{
		vcal("UID:1", "DTSTART;VALUE=DATE:20261225", "SUMMARY:Christ", " mas: a day"):                                      "[2026-12-25]",
		vcal("DTSTART;VALUE=DATE:20261231", "DTEND;VALUE=DATE:20270102"):                                                   "[2026-12-31 2027-01-01]",
		"\ufeff" + vcal("dtstart;value=date:2026", "\t1225", "DTEND:20261226"):                                             "[2026-12-25]",
		vcal("DTSTART:20261225", "BEGIN:VALARM", "DURATION:PT1H", "END:VALARM"):                                            "[2026-12-25]",
		vcal("DTSTART:20261225", "END:VEVENT", "BEGIN:VEVENT", "DTSTART:20261226", "STATUS:CANCELLED"):                     "[2026-12-25]",
		vcal("DTSTART;VALUE=DATE:20261126", "DTEND;VALUE=DATE:20261128", "RRULE:FREQ=YEARLY;COUNT=2;BYMONTH=11;BYDAY=4TH"): "[2026-11-26 2026-11-27 2027-11-25 2027-11-26]",
		vcal("DTSTART:20261225", "RRULE:freq=yearly;UNTIL=20281231", "EXDATE;VALUE=DATE:20271225"):                         "[2026-12-25 2028-12-25]",
		vcal("DTSTART:20981225", "RRULE:FREQ=YEARLY"):                                                                      "[2098-12-25 2099-12-25 2100-12-25]",
	} {
		days, err := ReadICal("f", strings.NewReader(text))
		var got []string
		for _, d := range days {
			got = append(got, d.Format(time.DateOnly))
		}
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v, want %s", text, got, err, want)
		}
	}
}

func TestReadICalErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "f:1: no BEGIN:VCALENDAR",
		vcal("DTSTART:20261225T120000Z"): `f:4: DTSTART: "20261225T120000Z": want a day`,
		vcal("DTSTART:20261225", "RRULE:FREQ=HOURLY"):                                      `f:5: RRULE: "FREQ=HOURLY": times of day`,
		vcal("DTSTART:20261225", "RRULE:FREQ=YEARLY;COUNT=0"):                              `f:5: RRULE: "FREQ=YEARLY;COUNT=0": want COUNT`,
		vcal("DTSTART:20261225", "RRULE:FREQ=OFTEN"):                                       "f:5: RRULE: ",
		vcal("DTSTART:20261225", "RRULE:FREQ=DAILY"):                                       "f:6: DTSTART: more than 10000 days",
		vcal("DTSTART:20261225", "RRULE:FREQ=YEARLY;BYMONTH=13"):                           "f:6: RRULE: bymonth must be",
		vcal("DTSTART:20261225", "RRULE:FREQ=YEARLY", "EXDATE:20261225T"):                  `f:6: EXDATE: "20261225T": want a day`,
		vcal("DTSTART:20261225", "RRULE:FREQ=YEARLY;COUNT=2", "RRULE:FREQ=WEEKLY;COUNT=2"): "f:6: RRULE: twice in one event",
		vcal("DTSTART:20261225", "RDATE:20271225"):                                         "f:5: RDATE: not supported",
		vcal("DTSTART:20261225", "DTEND:20261225"):                                         "f:6: DTEND: 2026-12-25: want a day after 2026-12-25",
		vcal("DTSTART:20261225", "DTEND:20281225"):                                         "f:6: DTEND: 2028-12-25: more than 366 days",
		vcal("DTSTART;TZID=Europe/Berlin:20261225"):                                        `f:4: DTSTART: "TZID=Europe/Berlin": want no parameter`,
		vcal("DTSTART:20261225", "DTSTART:20261226"):                                       "f:5: DTSTART: twice",
		vcal("SUMMARY:none"):                                                               "f:5: DTSTART: missing",
		vcal("DTSTART:20261225", "END:VCALENDAR"):                                          `f:5: END: "VCALENDAR": does not end what began last`,
		vcal("DTSTART"): `f:4: "DTSTART": want NAME:VALUE`,
		"BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20261225\n": "f:3: no END:VEVENT",
		"BEGIN:VCALENDAR\nEND:VCALENDAR\n":                  "f: no VEVENT",
		"{}":                                                "f:1: \"{}\": want NAME:VALUE",
	} {
		if _, err := ReadICal("f", strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzReadICal(f *testing.F) {
	f.Add(vcal("DTSTART;VALUE=DATE:20261225", "DTEND;VALUE=DATE:20261227", "SUMMARY:a", " b"))
	f.Add(vcal("DTSTART:20261225", "BEGIN:VALARM", "END:VALARM"))
	f.Add(vcal("DTSTART:20261126", "RRULE:FREQ=YEARLY;INTERVAL=2;BYMONTH=11;BYDAY=4TH,-1MO;BYSETPOS=-1", "EXDATE:20281123"))
	f.Fuzz(func(t *testing.T, text string) {
		days, err := ReadICal("f", strings.NewReader(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("%v: no file", err)
			}
			return
		}
		if len(days) == 0 || len(days) > maxHolidays {
			t.Errorf("%d days and no error", len(days))
		}
		for _, d := range days {
			if !d.Equal(d.Truncate(24 * time.Hour)) {
				t.Errorf("%v is no day", d)
			}
		}
	})
}
