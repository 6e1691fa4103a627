// Package board defines boards and panels and writes them as Grafana's classic JSON. A panel states what it
// shows, what a missing value means, and its thresholds. All other Grafana settings are set here, so all
// boards look and behave the same. It evaluates nothing (package eval does) and defines no series.
package board
