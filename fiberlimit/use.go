package fiberlimit

import (
	"reflect"

	"github.com/gofiber/fiber/v2"
)

// useField is where fiber keeps whether a route was made by Use. Fiber v2 has no other way to tell.
var useField, hasUseField = reflect.TypeFor[fiber.Route]().FieldByName("use")

// installedByUse reports whether route was made by Use, whose handlers run for all routes below its path.
func installedByUse(route *fiber.Route) bool {
	return hasUseField && useField.Type.Kind() == reflect.Bool && reflect.ValueOf(route).Elem().FieldByIndex(useField.Index).Bool()
}
