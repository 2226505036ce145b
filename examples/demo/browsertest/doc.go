// Package browsertest tests the demo's page in chromium. It is a module of its
// own, so that what drives the browser stays out of the library's requirements.
package browsertest
