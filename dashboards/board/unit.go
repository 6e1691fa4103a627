package board

import "github.com/gpuscale/gpuscale/gpu/metric"

// Unit is a unit of Grafana's.
type Unit string

// Units. Count is for whole things, Number for what may have a fraction (half a
// card), PerHour for money, whose currency is the price list's.
const (
	Count   Unit = "none"
	Number  Unit = "short"
	Percent Unit = "percentunit" // of a ratio from 0 to 1
	Seconds Unit = "s"
	Bytes   Unit = "bytes" // powers of 1024
	Watts   Unit = "watt"
	KWh     Unit = "kwatth"
	PerHour Unit = "suffix: /h"
	PerSec  Unit = "ops"
	Celsius Unit = "celsius"
	Word1   Unit = "string" // a column of text
	Ago     Unit = "dateTimeFromNow"
)

// Fits tells the units in which values of a series' unit may be shown.
func Fits(u metric.Unit) []Unit {
	switch u {
	case metric.Seconds:
		return []Unit{Seconds}
	case metric.Bytes:
		return []Unit{Bytes}
	case metric.Ratio:
		return []Unit{Percent}
	case metric.Watts:
		return []Unit{Watts}
	case metric.Celsius:
		return []Unit{Celsius}
	case metric.Joules:
		return nil // a bill is in kWh: divide by JoulesPerKWh
	}
	return []Unit{Count, Number, PerHour}
}

// JoulesPerKWh is what a kilowatt-hour has. Boards that divide by a thousand times
// more or less are common.
const JoulesPerKWh = "3.6e6"
