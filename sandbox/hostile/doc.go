// Package hostile attacks gpuscale with series that a tenant's own pods can expose: forged series of every
// family that our programs, rules and boards read, and series that are too many, too large or malformed. Its
// tests check that such series do not change what another tenant or the operator gets. The series are put
// directly into storages for Prometheus' own engine; scraping and Prometheus' scrape limits are not tested.
package hostile
