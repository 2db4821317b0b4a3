/** 后台权限点的名称。 */
export type Permission = "cabinet.view" | "cabinet.open" | "price.edit";

/** 当前登录用户拥有的权限，以及他负责的片区。 */
export interface Viewer {
  permissions: Permission[];
  districts: string[];
}

/**
 * 根据权限过滤左侧菜单，无权访问的菜单项不显示而不是置灰。
 * 这只影响界面，真正的鉴权由后端完成。
 */
export function visibleMenu<T extends { need?: Permission }>(items: T[], viewer: Viewer): T[] {
  return items.filter((it) => !it.need || viewer.permissions.includes(it.need));
}

/** 区域经理只能看到自己片区里的柜子；名下没有片区表示总部人员，不受限制。 */
export function inScope(viewer: Viewer, district: string): boolean {
  return viewer.districts.length === 0 || viewer.districts.includes(district);
}
