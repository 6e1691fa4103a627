// Package board has the types of boards and writes a board as Grafana's classic JSON. A
// panel states what it shows, the meaning of a missing value, and thresholds; all other
// settings of Grafana are set here, once, so that all boards look and behave alike. It
// evaluates nothing (package eval does) and has no series.
package board
