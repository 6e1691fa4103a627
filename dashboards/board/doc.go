// Package board is the vocabulary that boards are written in, and turns a board
// into Grafana's classic JSON. A panel says what it shows, what it means when
// there is nothing to show, and how a value is to be judged; everything that
// Grafana wants beyond that is decided here, once, so that all boards look and
// behave alike. It evaluates nothing and knows no series.
package board
