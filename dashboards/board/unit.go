package board

// Unit is a unit of Grafana's.
type Unit string

// Units. Count is for whole things, Number for what may have a fraction (half a
// GPU) and for money, whose currency is the price list's.
const (
	Count   Unit = "none"
	Number  Unit = "short"
	Percent Unit = "percentunit" // of a ratio from 0 to 1
	Seconds Unit = "s"
	Bytes   Unit = "bytes" // powers of 1024
	Watts   Unit = "watt"
	KWh     Unit = "kwatth"
	PerSec  Unit = "ops"
	Celsius Unit = "celsius"
)

// JoulesPerKWh are the joules of a kilowatt-hour.
const JoulesPerKWh = "3.6e6"
