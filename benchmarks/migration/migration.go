// Package migration holds the programs of docs/migrating.md: for each library the code before and the code after. The page
// shows the files *_before.go and *_after.go without their package clause. A test in docs checks that; the tests here check
// that both behave as the page says.
package migration
