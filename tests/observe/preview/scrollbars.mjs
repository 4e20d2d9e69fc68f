// Table asks for a default export that the bundled module lacks.
import * as whole from './node_modules/react-custom-scrollbars-2/lib/index.js';

export const Scrollbars = whole.Scrollbars ?? whole.default?.Scrollbars ?? whole.default;
export default Scrollbars;
