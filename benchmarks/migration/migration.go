// Package migration holds the code of docs/migrating.md, before and after, so that both compile. A test in docs
// checks that the page shows what stands here.
package migration
