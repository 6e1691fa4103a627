// Package hostile has what a tenant's metrics pages may show to harm others: forged series of every
// family that our programs, rules and boards read, and series that are many, large or broken. Its
// tests hold that none of it changes what another tenant, or the operator, gets. It attacks storages
// that Prometheus' own engine reads; the scrape, and Prometheus' limits of it, are left out.
package hostile
